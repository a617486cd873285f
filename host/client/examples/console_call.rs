// styx-client = { path = "host/client" }, serde_json, and tokio with its macros
use serde_json::json;
use styx_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let styx = Client::new("http://127.0.0.1:8080")?;
    let args = json!({"pieces": 5, "price": 30});
    println!("{}", styx.call("shop", "stock", "apple", "put", args).await?);
    Ok(())
}
