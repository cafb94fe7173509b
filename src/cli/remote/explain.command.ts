import { Command } from 'commander';
import { clientOf, outputOf, remote, segment } from './remote-command.js';
import { print } from '../terminal.js';

interface Reason {
  readonly code: string;
  readonly detail: string;
  readonly since: string | null;
  readonly request_id: string | null;
}

interface Explanation {
  readonly accepted_now: boolean;
  readonly reasons: readonly Reason[];
  readonly previous_key_accepted_until: string | null;
  readonly previous_key_reasons: readonly Reason[];
  readonly last_accepted_at: string | null;
  readonly last_accepted_for: string | null;
}

/** `platform-auth explain …`: what the doors do not tell. */
export function explainCommand(): Command {
  const explain = new Command('explain')
    .description('Say why a credential would be refused now.')
    .addHelpText('after', '\nExample:\n  platform-auth explain node 01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11');
  const example = '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11';
  remote(explain.command('node <node_id>'), 'Why would this node be refused now?', `explain node ${example}`).action(
    async (nodeId: string, _options, command: Command) => {
      const explanation = await clientOf(command).get<Explanation>(`/nodes/${segment(nodeId)}/explain`);
      print(outputOf(command), explanation, (it) => inWords(`Node ${nodeId}`, it));
    },
  );
  remote(
    explain.command('app <app_id>'),
    'Why would this app credential be refused now?',
    `explain app ${example} --target recipes`,
  )
    .option('--target <service>', 'that it is presented to')
    .action(async (appId: string, { target }: { target?: string }, command: Command) => {
      const path = `/app-credentials/${segment(appId)}/explain`;
      const explanation = await clientOf(command).get<Explanation>(path, { target });
      print(outputOf(command), explanation, (it) => inWords(`App credential ${appId}`, it));
    });
  return explain;
}

function inWords(name: string, explanation: Explanation): string {
  const { previous_key_accepted_until: until, previous_key_reasons, last_accepted_at, last_accepted_for } = explanation;
  const lines = [
    explanation.accepted_now ? `${name} would be accepted now, with its current key.` : `${name} would be refused now:`,
    ...explanation.reasons.map(lineOf),
  ];
  if (until !== null)
    lines.push(`The key before the last rotation is good too, until ${until} or the first use of the current one.`);
  if (previous_key_reasons.length > 0)
    lines.push('The key before the last rotation would be refused:', ...previous_key_reasons.map(lineOf));
  const service = last_accepted_for === null ? '' : ` for ${last_accepted_for}`;
  lines.push(last_accepted_at === null ? 'It was never accepted.' : `Last accepted at ${last_accepted_at}${service}.`);
  return lines.join('\n');
}

function lineOf({ code, detail, since, request_id }: Reason): string {
  const when = since === null ? '' : ` since ${since}`;
  const call = request_id === null ? '' : ` by request ${request_id}`;
  return `  ${code}${when}${call}\n    ${detail}`;
}
