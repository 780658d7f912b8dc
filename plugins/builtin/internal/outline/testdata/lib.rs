use std::fmt;
pub const MAX: usize = 10;
static NAME: &str = "x";
#[derive(Debug)]
pub struct Point<T> { x: T, y: T }
pub enum Kind { A, B(i32) }
pub trait Area { fn area(&self) -> f64; fn twice(&self) -> f64 { 2.0 * self.area() } }
impl<T> Point<T> {
    pub fn new(x: T, y: T) -> Self { Point { x, y } }
}
impl<T: Copy> Area for Point<T> where T: Into<f64> {
    fn area(&self) -> f64 { 0.0 }
}
mod inner { pub async fn run<'a>(s: &'a str) -> Result<(), Error> { Ok(()) } }
macro_rules! square { ($x:expr) => { $x * $x }; }
type Id = u64;
