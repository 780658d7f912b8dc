export interface Shape<T> extends Base { area(): number; name: string }
export type Id = string | number;
export enum Color { Red, Green }
export abstract class Circle implements Shape<number> {
  private r: number = 1;
  handler = (e: Event): void => {};
  constructor(private x: number) {}
  abstract area(): number;
  static make<T>(x: T): Circle { return null as any; }
}
namespace Geo.Inner { export function dist(a: number): number { return a; } }
declare function outer(a: string): void;
export const f = (a: number): number => a + 1;
export function over(a: string): void;
export function over(a: any) {}
