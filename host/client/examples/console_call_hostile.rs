// styx-client = { path = "host/client" }, serde_json, and tokio with its macros
use serde_json::json;
use styx_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let styx = Client::builder("http://127.0.0.1:8080").token(std::env::var("STYX_TOKEN")?).build()?;
    let args = json!({"not a name": [true, null, "it's \"a\" \\ $(x) `y` \u{0001}\n??/ שלום"], "class": 1});
    println!("{}", styx.call("shop", "stock", "it's \"a\" \\ $(x) `y` \u{0001}\n??/ שלום", "put", args).await?);
    Ok(())
}
