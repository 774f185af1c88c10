// Charges each name once, through the socket, and prints the charge's id. It asks again by the same name until it has one.
import http from "node:http";
import { createRequire } from "node:module";
const require = createRequire(process.env.ONCEWARD_NODE + "/");
const [socketPath, first, names, atOnce] = process.argv.slice(2);
const stripe = new (require("stripe"))("sk_test_of_the_shop", {
  host: "localhost", protocol: "http", telemetry: false, maxNetworkRetries: 1, timeout: 10000, httpAgent: new http.Agent({ socketPath }),
});
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

let next = 0;
async function work() {
  for (let n = next++; n < names; n = next++) {
    const name = `invoice-${(Number(first) + n) % names}`;
    for (;;) {
      try {
        const charge = await stripe.charges.create(
          { amount: 2000, currency: "eur", description: name }, { headers: { "Onceward-Operation": name } });
        console.log(`${name} ${charge.id}`);
        break;
      } catch (error) {
        if (error.code !== "onceward_pending" && error.code !== "onceward_not_sent" && error.type !== "StripeConnectionError") {
          console.log(`${name} FAILED ${error.type} ${error.code} ${error.message}`);
          break;
        }
        await wait(50);
      }
    }
  }
}
await Promise.all(Array.from({ length: Number(atOnce) }, work));
console.log("done");
