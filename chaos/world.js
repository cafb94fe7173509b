import { randomBytes } from 'node:crypto';
import { makeKept } from './actors/watchers.js';
import { hasBalancer, startBalancer } from './balancer.js';
import { defer } from './cleanup.js';
import { Ledger } from './ledger.js';
import { Load } from './load.js';
import { Postgres } from './postgres.js';
import { Record } from './record.js';
import { Replica } from './replica.js';
import { TcpProxy } from './tcp-proxy.js';

const REPLICAS = 3;

/** PostgreSQL behind a proxy, replicas of the service, and a load balancer in front of them, all on loopback. */
export class World {
  replicas = [];
  ledger = new Ledger();
  #secrets = { SECRET_KEY: randomBytes(32).toString('hex'), ADMIN_API_KEY: randomBytes(32).toString('hex') };

  /** Starts the database and the proxy; a scenario may prepare them before its replicas start. */
  static async withDatabase() {
    const world = new World();
    world.postgres = await Postgres.start();
    world.proxy = await new TcpProxy(world.postgres.port).open();
    defer(() => world.proxy.close());
    return world;
  }

  /** The defaults, except for a cheap bcrypt and a grace longer than any fault, so that a retried refresh succeeds. */
  variables(more = {}) {
    return {
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      DATABASE_URL: this.proxy.url(this.postgres.url),
      BCRYPT_COST: '4',
      REFRESH_GRACE_SECONDS: '300',
      TRUST_PROXY: 'true',
      ...this.#secrets,
      ...more,
    };
  }

  async startReplicas(more, count = REPLICAS) {
    for (let made = 0; made < count; made += 1) this.replicas.push(await Replica.create(this.variables(more)));
    await Promise.all(this.replicas.map((replica) => replica.start()));
    this.balancer = hasBalancer ? await startBalancer(this.replicas) : undefined;
  }

  async startLoad(options) {
    this.record = new Record();
    this.load = new Load({
      record: this.record,
      ledger: this.ledger,
      targets: () => ({ balancer: this.balancer, replicas: this.replicas.map(({ url }) => url) }),
      adminKey: this.#secrets.ADMIN_API_KEY,
      ...options,
    });
    await makeKept(this.load);
    this.record = this.load.record = new Record();
    this.load.start();
  }
}
