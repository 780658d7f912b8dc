export function View({ a }: Props): JSX.Element { return <div className="x">{a}</div>; }
export const Item: React.FC<Props> = ({ b }) => <li>{b}</li>;
export const Table = memo(View);
