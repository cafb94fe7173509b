export interface Target {
  readonly url: string;
  readonly adminKey: string;
  readonly account: { readonly email: string; readonly password: string };
  readonly household_id: string;
}

/** @throws when the answer was an error */
export function expectData<Data>(answer: { data?: Data; error?: unknown }): NonNullable<Data> {
  if (answer.data === undefined || answer.data === null) throw new Error(`An error: ${JSON.stringify(answer.error)}`);
  return answer.data;
}
