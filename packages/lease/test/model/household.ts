import type { World } from './world.js';

export const HOME = '01985f4e-7c3a-7b52-9d1e-000000000d01';

/** What a call ends: after it has answered, no verifier may accept it. */
export interface Right {
  readonly id: string;
  /** By itself, in true time; absent: never. */
  readonly expiresAtMs?: number;
  /** Committed. */
  hasEnded: boolean;
  /** From then on no verifier may accept it. */
  deadSince: number;
}

/**
 * One household in PostgreSQL. The user of the sessions and another person are its admins, and a third one lives there.
 * An act locks the household, judges, and keeps the lock until it has committed.
 */
export class Household {
  readonly place: Right = { id: 'the place of the user', hasEnded: false, deadSince: Infinity };
  readonly role: Right = { id: 'the role of the user', hasEnded: false, deadSince: Infinity };
  private hasOtherAdmin = true;
  private isCodeOpen = false;
  private isLocked = false;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly world: World) {}

  listMemberships(): object[] {
    if (this.place.hasEnded) return [];
    return [{ id: HOME, role: this.role.hasEnded ? 'member' : 'admin' }];
  }

  /** The last admin of a household with other members stays. */
  get canEndRole(): boolean {
    return this.role.hasEnded || this.hasOtherAdmin;
  }

  end(rights: readonly Right[]): void {
    for (const right of rights) right.hasEnded = true;
    if (this.world.mistake !== 'code outlives its issuer') this.isCodeOpen = false;
    this.expectAdmin();
  }

  letOtherAdminLeave(holdMs: number): void {
    this.act(
      holdMs,
      () => !this.role.hasEnded,
      () => {
        this.hasOtherAdmin = false;
        this.expectAdmin();
      },
    );
  }

  /** The user invites a person. */
  issueCode(holdMs: number): void {
    this.act(
      holdMs,
      () => !this.role.hasEnded,
      () => (this.isCodeOpen = true),
    );
  }

  acceptCode(holdMs: number): void {
    const { violations } = this.world;
    this.act(
      holdMs,
      () => this.isCodeOpen,
      () => {
        this.isCodeOpen = false;
        if (this.role.hasEnded) violations.push('a code was accepted after its issuer was no admin any more');
      },
    );
  }

  /** @param work gets a function that gives the lock back */
  lock(work: (unlock: () => void) => void): void {
    if (this.world.mistake === 'last admin by look-then-write') {
      work(() => undefined);
      return;
    }
    if (this.isLocked) {
      this.waiting.push(() => this.lock(work));
      return;
    }
    this.isLocked = true;
    work(() => {
      this.isLocked = false;
      this.waiting.shift()?.();
    });
  }

  private act(holdMs: number, judge: () => boolean, write: () => void): void {
    this.lock((unlock) => {
      if (!judge()) {
        unlock();
        return;
      }
      this.world.at(holdMs, () => {
        write();
        unlock();
      });
    });
  }

  private expectAdmin(): void {
    if (this.role.hasEnded && !this.hasOtherAdmin) this.world.violations.push('the household has no admin');
  }
}
