import { Injectable } from '@nestjs/common';

/** Whether this process accepts new requests. At a stop it becomes unready before it stops answering. */
@Injectable()
export class Readiness {
  private draining = false;

  get isDraining(): boolean {
    return this.draining;
  }

  drain(): void {
    this.draining = true;
  }
}
