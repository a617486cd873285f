// What to do where nothing is deployed.
import { Card, Command } from './basics';
import { Upload } from './upload';

const EXAMPLE = `from styx import Context, Operator

stock = Operator("stock")

@stock.register
def put(ctx: Context, pieces: int) -> None:
    ctx.state.put({"pieces": pieces})

@stock.register
def take(ctx: Context, pieces: int) -> int:
    item = ctx.state.get()
    if item is None or item["pieces"] < pieces:
        raise ValueError(f"not enough {ctx.key}")
    item["pieces"] -= pieces
    ctx.state.put(item)
    return item["pieces"]`;

export function FirstApp() {
  return (
    <Card title="Deploy a first app" className="first">
      <p>
        An app is functions on keyed entities. Each call, whatever it calls in turn, is one strictly serializable
        transaction, exactly once.
      </p>
      <div className="columns">
        <div>
          <h3>With the program</h3>
          <p className="quiet">
            Save this as <code>shop/shop.py</code>, then
          </p>
          <Command>{EXAMPLE}</Command>
          <Command>{'styx deploy shop'}</Command>
          <Command>{"styx call shop/stock/apple/put '[5]'"}</Command>
        </div>
        <div>
          <h3>Or here</h3>
          <Upload />
        </div>
      </div>
    </Card>
  );
}
