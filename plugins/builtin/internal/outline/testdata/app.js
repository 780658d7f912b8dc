import x from 'y';
const LIMIT = 10;
let state = { a: 1,
  b: 2 };
export const add = async (a, b) => { return a + b; };
export default class Cart extends Base {
  #items = [];
  onClick = (e) => { this.x = e; };
  constructor(a) { super(a); }
  static of(...items) { return new Cart(items); }
  get size() { return 0; }
}
function* numbers(n) { yield n; }
module.exports.run = function (argv) { return 0; };
exports.limit = 3;
Cart.prototype.clear = () => { };
const { a, b } = require('z');
