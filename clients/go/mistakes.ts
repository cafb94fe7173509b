// Mistakes of the verifier, which the recorded worlds (worlds_test.go) must find. Each replaces one place of one file.

export interface Mistake {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

export const mistakes: readonly Mistake[] = [
  {
    name: 'lease of a poll from the answer',
    file: 'poller.go',
    from: 'return renewed, found.sent, nil',
    to: 'return renewed, p.runtime.now(), nil',
  },
  {
    name: 'lease of a verdict from the answer',
    file: 'questions.go',
    from: 'usableUntil: sent.add(decided.freshFor)',
    to: 'usableUntil: q.runtime.now().add(decided.freshFor)',
  },
  {
    name: 'late answer used',
    file: 'questions.go',
    from: 'usableUntil: sent.add(decided.freshFor)',
    to: 'usableUntil: never',
  },
  {
    name: 'user voids no ticket',
    file: 'lease.go',
    from: 'func (l *lease) evict(c change) {\n\tl.version++',
    to: 'func (l *lease) evict(c change) {\n\tif c.kind != "user" {\n\t\tl.version++\n\t}',
  },
  {
    name: 'remembered whatever was reported since the question',
    file: 'lease.go',
    from: 'if t.version == l.version {',
    to: 'if t.version <= l.version {',
  },
  {
    name: 'reset evicts nothing',
    file: 'cache.go',
    from: 'l.onChange(c.evict, c.evictAll)',
    to: 'l.onChange(c.evict, func() {})',
  },
  {
    name: 'entries end by the wall clock alone',
    file: 'cache.go',
    from: '!now.isBefore(found.ends)',
    to: 'now.wall >= found.ends.wall',
  },
  {
    name: 'entries end by the monotonic clock alone',
    file: 'cache.go',
    from: '!now.isBefore(found.ends)',
    to: 'now.monotonic >= found.ends.monotonic',
  },
  {
    name: 'lease ends by the wall clock alone',
    file: 'cache.go',
    from: '!now.isBefore(*until)',
    to: 'now.wall >= until.wall',
  },
  {
    name: 'lease ends by the monotonic clock alone',
    file: 'cache.go',
    from: '!now.isBefore(*until)',
    to: 'now.monotonic >= until.monotonic',
  },
  {
    name: 'entries outlive what the service allows',
    file: 'questions.go',
    from: 'ends: sent.add(decided.rememberFor)',
    to: 'ends: sent.add(maxRemember)',
  },
  {
    name: 'remembered answer outlives a demotion',
    file: 'question.go',
    from: '{kind: "session", id: t.sessionID}, {kind: "user", id: t.userID}',
    to: '{kind: "session", id: t.sessionID}',
  },
  {
    name: 'earlier link not indexed',
    file: 'question.go',
    from: 'range t.chain {',
    to: 'range t.chain[:min(1, len(t.chain))] {',
  },
  {
    name: 'demands judged when asked',
    file: 'verifier.go',
    from: 'if err := d.check(remembered.principal); err != nil {',
    to: 'if err := d.check(remembered.principal); err != nil && !remembered.askAgain.Load() {',
  },
  {
    name: 'absent taken for none',
    file: 'principals.go',
    from: 'if !isList {\n\t\treturn nil, false',
    to: 'if !isList {\n\t\treturn nil, true',
  },
  {
    name: 'token reused by session and target',
    file: 'exchange.go',
    from: 'name := computeDigest(string(presented.digest[:]), target+" "+scope)',
    to: 'token, _ := parseToken(presented.secret)\n\tname := computeDigest(token.sessionID, target+" "+scope)',
  },
];
