// How long a start takes until the first answer, its CPU, and the memory of the idle process, compared with a bare
// node:http server in the same run. It runs on loopback, prints the figures, and fails for none of them.
import { writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { claimPort } from '../tools/claim-port.js';
import { Cleanup } from '../tools/cleanup.js';
import { readCommandLine } from '../tools/command-line.js';
import { makeTemporaryFolder, startPostgres } from '../tools/postgres.js';
import { readCpuMicroseconds, readResidentMegabytes } from '../tools/process-usage.js';
import { ServerProcess, type ServerOptions } from '../tools/server-process.js';
import { makeSecrets, productionVariables, SERVICE_FLAGS, SERVICE_SCRIPT } from '../tools/service.js';
import { percentile } from '../tools/statistics.js';
import { formatFigure, printTable } from '../tools/table.js';

const USAGE = `Usage: npm run bench:start -- [--rounds N]

  --rounds N  starts of each program, in turn; the median counts (default 10)
  --help      print this text`;

const BARE_SERVER = `require('node:http').createServer((_, response) => response.end('ok')).listen(process.env.PORT, '127.0.0.1')`;
const POLL_INTERVAL_MS = 5;
/** After this time the garbage collector has returned the memory that only the start needed. */
const IDLE_DELAY_MS = 5_000;

interface Figures {
  readonly startMs: number;
  readonly cpuMs: number;
  readonly idleMegabytes: number;
}

const { rounds } = readCommandLine(USAGE, () => {
  const { values } = parseArgs({ options: { rounds: { type: 'string', default: '10' } } });
  const count = Number(values.rounds);
  if (!(Number.isInteger(count) && count >= 1 && count <= 100)) throw new Error('1 to 100 rounds');
  return { rounds: count };
});

await Cleanup.around(async (cleanup) => {
  const database = await startPostgres({ cleanup, purpose: 'bench-start' });
  const bareServer = join(makeTemporaryFolder(cleanup, 'bench-start-files'), 'server.cjs');
  writeFileSync(bareServer, BARE_SERVER);
  const service = { script: SERVICE_SCRIPT, variables: productionVariables(database.url(), makeSecrets()) };
  const programs = [
    { name: 'bare node:http', program: { script: bareServer } },
    { name: 'the service as `npm start` runs it', program: { ...service, flags: SERVICE_FLAGS } },
    { name: 'the same without flags of Node.js', program: service },
  ];
  const measure = async (program: Omit<ServerOptions, 'cleanup'>): Promise<Figures> => {
    const server = new ServerProcess(await claimPort(), { cleanup, ...program });
    const startedAt = performance.now();
    void server.launch();
    while (!(await isAnswering(server.url))) await sleep(POLL_INTERVAL_MS);
    const [startMs, cpuMs] = [performance.now() - startedAt, readCpuMicroseconds(server.pid) / 1_000];
    await sleep(IDLE_DELAY_MS);
    const idleMegabytes = readResidentMegabytes(server.pid) ?? NaN;
    await server.kill();
    return { startMs, cpuMs, idleMegabytes };
  };
  // The first start migrates the database, so it does not count.
  const measured = programs.map(({ name }) => ({ name, figures: [] as Figures[] }));
  for (let round = 0; round <= rounds; round += 1) {
    for (const [index, { program }] of programs.entries()) {
      const figures = await measure(program);
      if (round > 0) measured[index]?.figures.push(figures);
    }
  }
  const bareMs = median(measured[0]?.figures ?? [], 'startMs');
  printTable(
    ['median', 'first answer, ms', '× node:http', 'CPU, ms', 'idle, MB'],
    measured.map(({ name, figures }) => {
      const startMs = median(figures, 'startMs');
      const [cpuMs, idle] = [median(figures, 'cpuMs'), median(figures, 'idleMegabytes')];
      return [name, formatFigure(startMs), formatFigure(startMs / bareMs, 1), formatFigure(cpuMs), formatFigure(idle)];
    }),
  );
});

function isAnswering(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    get(`${url}/health/live`, { agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    }).on('error', () => resolve(false));
  });
}

function median(figures: readonly Figures[], name: keyof Figures): number {
  return percentile(
    figures.map((one) => one[name]),
    0.5,
  );
}
