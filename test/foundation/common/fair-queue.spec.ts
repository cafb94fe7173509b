import { FairQueue, type Ticket } from '../../../src/foundation/common/fair-queue.js';

const from = (network: string, isKnown = false): Ticket => ({ networks: [network], isKnown });
const inIpv6 = (site: string, subnet: string): Ticket => ({ networks: [`${site}:${subnet}`, site], isKnown: false });

/** A queue of texts; `lost` collects the rejected and the displaced ones. */
function queueOf(limit: number) {
  const queue = new FairQueue<string>(limit);
  const lost: string[] = [];
  const push = (item: string, ticket: Ticket, isIdle = false): void => {
    const evicted = queue.push(item, ticket, isIdle);
    if (evicted !== undefined) lost.push(evicted);
  };
  return { queue, lost, push };
}

describe('FairQueue', () => {
  it('serves networks in turn, and the items of one network in order', () => {
    const { queue, push } = queueOf(100);
    for (const item of ['a1', 'a2', 'a3']) push(item, from('a'));
    push('b1', from('b'));
    for (const item of ['c1', 'c2']) push(item, from('c'));
    expect(queue.take(10)).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3']);
    expect(queue.size).toBe(0);
    expect(queue.shift()).toBeUndefined();
  });

  it('serves a /48 as one network, whose /64 networks share its turns', () => {
    const { queue, push } = queueOf(100);
    for (const subnet of ['1', '2', '3']) push(`x${subnet}`, inIpv6('x', subnet));
    push('x1 again', inIpv6('x', '1'));
    for (const item of ['b1', 'b2']) push(item, from('b'));
    expect(queue.take(10)).toEqual(['x1', 'b1', 'x2', 'b2', 'x3', 'x1 again']);
  });

  it('holds at most an eighth for one network while others wait', () => {
    const { queue, lost, push } = queueOf(16);
    for (let n = 0; n < 17; n += 1) push(`a${n}`, from('a'));
    expect([queue.size, lost]).toEqual([16, ['a16']]);
    push('b1', from('b'));
    expect([queue.size, lost]).toEqual([16, ['a16', 'a15']]);
    push('b2', from('b'));
    push('b3', from('b'));
    expect(lost).toEqual(['a16', 'a15', 'a14', 'b3']);
    expect(queue.take(4)).toEqual(['a0', 'b1', 'a1', 'b2']);
  });

  it('rejects a new item when every network holds only one', () => {
    const { lost, push } = queueOf(8);
    for (const network of 'abcdefgh') push(network, from(network));
    push('i', from('i'));
    expect(lost).toEqual(['i']);
    push('a again', from('a'));
    expect(lost).toEqual(['i', 'a again']);
  });

  it('serves an address that the account knows first, also when the queue is full', () => {
    const { queue, lost, push } = queueOf(8);
    for (const network of 'abcdefgh') push(network, from(network));
    push('owner', from('home', true), true);
    expect(lost).toEqual(['h']);
    expect(queue.take(3)).toEqual(['owner', 'a', 'b']);
  });

  it('does not serve a known network first while it is served or waits already', () => {
    const { queue, push } = queueOf(100);
    push('a', from('a'));
    push('b', from('b', true), false);
    push('c1', from('c', true), true);
    push('c2', from('c', true), true);
    expect(queue.take(4)).toEqual(['c1', 'a', 'b', 'c2']);
  });

  it('gives every eighth turn to unknown addresses', () => {
    const { queue, push } = queueOf(100);
    push('unknown', from('u'));
    for (let n = 0; n < 20; n += 1) push(`known ${n}`, from(`k${n}`, true), true);
    expect(queue.take(9).indexOf('unknown')).toBe(7);
  });

  it('counts known and unknown clients of one network together', () => {
    const { queue, push } = queueOf(100);
    for (const item of ['guess 1', 'guess 2', 'guess 3']) push(item, from('office'));
    push('colleague', from('office', true));
    expect(queue.take(4)).toEqual(['guess 1', 'colleague', 'guess 2', 'guess 3']);
  });
});
