// Calls each SDK against each refusal that the server at the given port has, and prints what the SDK makes of it.
import http from "node:http";
import { createRequire } from "node:module";
const require = createRequire(process.env.ONCEWARD_NODE + "/");
globalThis.crypto ??= require("node:crypto").webcrypto; // Node 18 has none, and Svix needs one
const port = process.argv[2];
const base = `http://127.0.0.1:${port}`;

const sdks = {
  stripe() {
    const stripe = new (require("stripe"))("sk_test_of_the_shop", { host: "127.0.0.1", port, protocol: "http", telemetry: false });
    return () => stripe.charges.create({ amount: 2000, currency: "eur" }, { headers: { "Onceward-Operation": "invoice-1" } });
  },
  square() {
    const { SquareClient } = require("square");
    const square = new SquareClient({ token: "sk_test_of_the_shop", baseUrl: base });
    const payment = { idempotencyKey: "k", sourceId: "cnon:card-nonce-ok", amountMoney: { amount: BigInt(2000), currency: "EUR" } };
    return () => square.payments.create(payment, { headers: { "Onceward-Operation": "invoice-1" } });
  },
  adyen() {
    const { Client, CheckoutAPI, EnvironmentEnum, HttpURLConnectionClient } = require("@adyen/api-library");
    class ViaProxy extends HttpURLConnectionClient {
      createRequest(endpoint, { method = "POST", headers, idempotencyKey }) { // the SDK's own speaks TLS alone
        const { pathname: path } = new URL(endpoint);
        return http.request({ host: "127.0.0.1", port, path, method, headers: { ...headers, ...(idempotencyKey && { "Idempotency-Key": idempotencyKey }) } });
      }
    }
    const client = new Client({ apiKey: "AQEyhmfxLI3MaBFLw0m", environment: EnvironmentEnum.TEST });
    client.httpClient = new ViaProxy();
    const { PaymentsApi } = new CheckoutAPI(client);
    return () => PaymentsApi.payments({ amount: { currency: "EUR", value: 2000 }, reference: "1" }, { headers: { "Onceward-Operation": "invoice-1" } });
  },
  paypal() {
    const { Client, OrdersController } = require("@paypal/paypal-server-sdk");
    const axios = require("axios");
    const client = new Client({
      clientCredentialsAuthCredentials: { oAuthClientId: "client", oAuthClientSecret: "secret" },
      unstable_httpClientOptions: {
        headers: { "Onceward-Operation": "invoice-1" },
        adapter: (call) => axios.getAdapter("http")({ ...call, url: call.url.replace("https://api-m.sandbox.paypal.com", base) }),
      },
    });
    const order = { intent: "CAPTURE", purchaseUnits: [{ amount: { currencyCode: "EUR", value: "20.00" } }] };
    return () => new OrdersController(client).createOrder({ body: order });
  },
  openai() {
    const openai = new (require("openai").OpenAI)({ apiKey: "sk", baseURL: base });
    return () => openai.chat.completions.create({ model: "m", messages: [] });
  },
  resend() {
    const resend = new (require("resend").Resend)("re_1", { baseUrl: base });
    return () => resend.emails.send({ from: "a@example.com", to: "b@example.com", subject: "s", text: "t" });
  },
  svix() {
    const svix = new (require("svix").Svix)("sk", { serverUrl: base });
    return () => svix.message.create("app_1", { eventType: "paid", payload: {} });
  },
};

const control = async (path) => (await fetch(base + path)).json();
for (const [name, make] of Object.entries(sdks)) {
  const call = make();
  for (let n = 0; ; n++) {
    const { problem } = await control(`/case/${name}/${n}`);
    if (!problem) break;
    let result;
    try {
      const value = await call();
      result = value?.error ? "resolves with an error" : "RESOLVES";
    } catch (error) {
      result = `rejects with ${error.constructor.name}`;
    }
    const { requests } = await control("/requests");
    console.log(`${name.padEnd(6)}  ${problem.padEnd(20)}  ${result}; requests: ${requests}`);
  }
}
