const PASSWORD = 'a passphrase of SECRETCANARY7F3A91';
const MAX_ATTEMPTS = 20;

/** The kind of credential that each symbol of a generated request belongs to. */
const KINDS = {
  user_id: 'user',
  email: 'user',
  password: 'user',
  access_token: 'session',
  refresh_token: 'session',
  node_id: 'node',
  household_id: 'node',
  api_key: 'node',
  app_id: 'app',
  app_key: 'app',
  caller: 'app',
  target: 'app',
  admin_key: 'operator',
  cursor: 'page',
};

/**
 * Real accounts and keys. Generated requests name them by symbols, `{{app_key}}`, so that a seed generates the same
 * requests in every run. A credential that a request has ended is replaced for the next one.
 */
export class Actors {
  #minted = new Map();
  #serial = 0;

  /** @param call `(method, path, {headers, body}) => {status, json}` */
  constructor(call, adminKey) {
    this.call = call;
    this.adminKey = adminKey;
  }

  /** @returns a function that replaces the symbols in a text by live values, after minting all that it needs */
  async valuesFor(...texts) {
    const names = texts.flatMap((text) => [...text.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name));
    const kinds = new Set(names.map((name) => KINDS[name]).filter(Boolean));
    const live = new Map();
    for (const kind of kinds) live.set(kind, await this.#live(kind));
    return {
      kinds,
      fill: (text) => text.replace(/\{\{(\w+)\}\}/g, (symbol, name) => live.get(KINDS[name])?.[name] ?? symbol),
    };
  }

  /** Discards credentials: the next request that names them gets new ones. */
  spend(kinds) {
    for (const kind of kinds) this.#minted.delete(kind);
    if (kinds.has('user')) this.#minted.delete('session');
  }

  #live(kind) {
    let minted = this.#minted.get(kind);
    if (!minted) {
      minted = this.#mint(kind);
      this.#minted.set(kind, minted);
      minted.catch(() => this.#minted.delete(kind));
    }
    return minted;
  }

  async #mint(kind) {
    this.#serial += 1;
    const serial = `${process.pid}x${this.#serial}`;
    switch (kind) {
      case 'operator':
        return { admin_key: this.adminKey };
      case 'user': {
        const email = `fuzz${serial}@example.org`;
        const { id } = await this.#ask('POST', '/api/v0/admin/users', { email, password: PASSWORD });
        return { user_id: id, email, password: PASSWORD };
      }
      case 'session':
        return this.#logIn();
      case 'node': {
        const body = { household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' };
        return this.#ask('POST', '/api/v0/admin/nodes', body);
      }
      case 'app':
        return this.#ask('POST', '/api/v0/admin/app-credentials', { caller: `fuzz-${serial}`, target: 'auth' });
      case 'page':
        return this.#cursor();
    }
  }

  /** A generated request may disable or delete the user at any moment: then retries with a new user. */
  async #logIn() {
    for (let left = MAX_ATTEMPTS; left > 0; left -= 1) {
      const { email, password } = await this.#live('user');
      const { status, json } = await this.#callWithRetry('POST', '/api/v0/auth/login', { email, password });
      if (status === 200) return json;
      this.#minted.delete('user');
    }
    throw new Error(`No login succeeded in ${MAX_ATTEMPTS} attempts`);
  }

  async #cursor() {
    for (const name of ['fuzz-a', 'fuzz-b']) {
      await this.#callWithRetry('POST', '/api/v0/admin/app-credentials', { caller: name, target: 'auth' });
    }
    const { next_cursor } = await this.#ask('GET', '/api/v0/admin/app-credentials?limit=1');
    return { cursor: next_cursor };
  }

  async #ask(method, path, body) {
    const { status, json } = await this.#callWithRetry(method, path, body);
    if (status >= 300) throw new Error(`${method} ${path} for a fresh credential answered ${status} ${json?.code}`);
    return json;
  }

  async #callWithRetry(method, path, body) {
    for (let left = MAX_ATTEMPTS; ; left -= 1) {
      const answer = await this.call(method, path, { headers: { 'X-Admin-Key': this.adminKey }, body });
      if (answer.status !== 503 || left === 0) return answer;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
