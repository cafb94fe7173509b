import { Command } from 'commander';
import { EXAMPLES } from '../../common/examples.js';
import { createClient, readOutput, describeRemote, encodeSegment } from './remote-command.js';
import { addExplainUser } from './explain-user.js';
import { formatReason, type Reason } from './reasons.js';
import { print } from '../terminal.js';
import { formatNeeds, NEEDS_ADMIN_KEY } from '../needs.js';

interface Explanation {
  readonly accepted_now: boolean;
  readonly reasons: readonly Reason[];
  readonly previous_key_accepted_until: string | null;
  readonly previous_key_reasons: readonly Reason[];
  readonly last_accepted_at: string | null;
  readonly last_accepted_for: string | null;
}

/** `platform-auth explain …`: the reason for a 401, which the doors hide from callers. */
export function createExplainCommand(): Command {
  const explain = new Command('explain')
    .description('Say why a credential or a login would be refused now.')
    .addHelpText(
      'after',
      formatNeeds(
        `${NEEDS_ADMIN_KEY}\nExit code 0 whatever the verdict: scripts read accepted_now of --json.`,
        `platform-auth explain node ${EXAMPLES.id}`,
      ),
    );
  describeRemote(
    explain.command('node <node_id>'),
    'Why would this node be refused now?',
    `explain node ${EXAMPLES.id}`,
  ).action(async (nodeId: string, _options, command: Command) => {
    const explanation = await createClient(command).get<Explanation>(`/nodes/${encodeSegment(nodeId)}/explain`);
    print(readOutput(command), explanation, (it) => formatExplanation(`Node ${nodeId}`, it));
  });
  describeRemote(
    explain.command('app <app_id>'),
    'Why would this app credential be refused now?',
    `explain app ${EXAMPLES.id} --target recipes`,
  )
    .option('--target <service>', 'the service that the credential is presented to')
    .action(async (appId: string, { target }: { target?: string }, command: Command) => {
      const path = `/app-credentials/${encodeSegment(appId)}/explain`;
      const explanation = await createClient(command).get<Explanation>(path, { target });
      print(readOutput(command), explanation, (it) => formatExplanation(`App credential ${appId}`, it));
    });
  addExplainUser(explain);
  return explain;
}

function formatExplanation(name: string, explanation: Explanation): string {
  const { previous_key_accepted_until: until, previous_key_reasons, last_accepted_at, last_accepted_for } = explanation;
  const lines = [
    explanation.accepted_now ? `${name} would be accepted now, with its current key.` : `${name} would be refused now:`,
    ...explanation.reasons.map(formatReason),
  ];
  if (until !== null)
    lines.push(`The key before the last rotation is valid too, until ${until} or the first use of the current one.`);
  if (previous_key_reasons.length > 0)
    lines.push('The key before the last rotation would be refused:', ...previous_key_reasons.map(formatReason));
  const service = last_accepted_for === null ? '' : ` for ${last_accepted_for}`;
  lines.push(last_accepted_at === null ? 'It was never accepted.' : `Last accepted at ${last_accepted_at}${service}.`);
  return lines.join('\n');
}
