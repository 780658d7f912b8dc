#pragma once
namespace geo {
template <typename T>
class Shape : public Base {
public:
  Shape(int a);
  ~Shape();
  virtual double area() const = 0;
  bool operator==(const Shape &o) const { return true; }
  static Shape make() { return Shape(1); }
  int field = 1;
  struct Inner { void run(); };
};
using Id = long;
enum class Color { Red };
template <typename T> T max(T a, T b) { return a < b ? b : a; }
}
double geo::Circle::area() const { return 1; }
std::vector<int> &numbers();
int main(int argc, char **argv) { return 0; }
