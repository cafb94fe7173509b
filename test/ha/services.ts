import type { Variables } from '../../src/foundation/config/environment.js';
import { makeBuiltService } from '../../tools/built-service.js';
import { eventually } from '../../tools/eventually.js';
import { Program } from '../../tools/program.js';
import { replaceSettings } from '../../tools/replace-settings.js';
import { isHealthy, isResponding, type ServerProcess } from '../../tools/server-process.js';
import { makeSecrets } from '../../tools/service.js';
import { REPLICAS, writeServiceBalancer, type Place } from './shipped-files.js';

const secrets = makeSecrets();
export const ADMIN_KEY = secrets.ADMIN_API_KEY;

export function makeService(
  { cleanup }: Place,
  databaseUrl: string,
  variables: Variables = {},
): Promise<ServerProcess> {
  return makeBuiltService({ cleanup, databaseUrl, secrets, variables });
}

/** Three replicas of the service behind HAProxy with deploy/ha/haproxy-service.cfg. */
export class Service {
  private constructor(
    readonly url: string,
    readonly replicas: readonly ServerProcess[],
  ) {}

  /** Starts HAProxy only. */
  static async create(place: Place, databaseUrl: string): Promise<Service> {
    const variables = {
      // As the page says.
      REFRESH_GRACE_SECONDS: '60',
      // The load is a proxy before HAProxy, whose clients have many addresses.
      TRUST_PROXY: '2',
      // The load logs in again and again: the first session of each user must stay.
      NODE_OPTIONS: replaceSettings({ sessionLimitPerUser: 100_000 }),
    };
    const replicas = await Promise.all(REPLICAS.map(() => makeService(place, databaseUrl, variables)));
    const configuration = writeServiceBalancer(
      place,
      replicas.map(({ port }) => port),
    );
    Program.start(place.cleanup, 'haproxy', ['-db', '-f', configuration]);
    const url = `http://127.0.0.1:${place.servicePort}`;
    await eventually('HAProxy answers', () => isResponding(url));
    return new Service(url, replicas);
  }

  /** Resolves when HAProxy leads to a replica that is ready. */
  async start(): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.start()));
    await eventually('HAProxy leads to the replicas', () => isHealthy(this.url));
  }
}
