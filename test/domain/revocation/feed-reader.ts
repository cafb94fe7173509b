import { Client } from 'pg';
import { CHANGES_SINCE } from '../../../src/domain/revocation/revocation-feed.js';
import { toAnswer, parseSnapshot, type Answer, type FeedRow } from '../../../packages/lease/src/change-feed.js';

/** Polls the change feed. */
export class FeedReader {
  private cursor: string | undefined;

  private constructor(readonly client: Client) {}

  static async connect(url: string): Promise<FeedReader> {
    const client = new Client({ connectionString: url });
    client.on('error', () => undefined);
    await client.connect();
    return new FeedReader(client);
  }

  /** Continues at the cursor of another reader, as a client of several replicas does. */
  async follow(other: FeedReader): Promise<Answer> {
    this.cursor = other.cursor;
    return this.ask();
  }

  async ask(): Promise<Answer> {
    const { rows } = await this.client.query<FeedRow>({ ...CHANGES_SINCE, values: [parseSnapshot(this.cursor)] });
    const answer = toAnswer(this.cursor, rows[0]!);
    this.cursor = answer.cursor;
    return answer;
  }

  async close(): Promise<void> {
    await this.client.end();
  }
}
