import { Injectable } from '@nestjs/common';

/** Whether this process wants new requests. It stops wanting them before it stops answering them. */
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
