import { ValidationPipe, type ArgumentMetadata, type ValidationError } from '@nestjs/common';
import { ProblemException } from '../common/problem.exception.js';
import { problems, type FieldError } from '../common/problems.js';
import { pointerToken, UNKNOWN_FIELD } from '../common/unknown-fields.js';

/** What an absent body comes to is the same each time: where it is good, it is validated once for each class. */
class FieldsPipe extends ValidationPipe {
  private readonly ofNothing = new Map<unknown, unknown>();

  override async transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    if (value !== undefined || metadata.type !== 'body') return super.transform(value, metadata);
    const known = this.ofNothing.get(metadata.metatype);
    if (known !== undefined) return known;
    const nothing: unknown = Object.freeze(await super.transform(value, metadata));
    this.ofNothing.set(metadata.metatype, nothing);
    return nothing;
  }
}

/** Validates bodies and queries against their classes; fields that the class does not declare are refused. */
export function createValidationPipe(): ValidationPipe {
  return new FieldsPipe({
    transform: true,
    whitelist: true,
    forbidNonWhitelisted: true,
    forbidUnknownValues: true,
    stopAtFirstError: true,
    validationError: { target: false, value: false },
    exceptionFactory: (errors) =>
      new ProblemException(problems.validationFailed, { errors: errors.flatMap((error) => fieldErrors(error, '')) }),
  });
}

function fieldErrors(error: ValidationError, parent: string): FieldError[] {
  const pointer = `${parent}/${pointerToken(error.property)}`;
  const own = Object.entries(error.constraints ?? {}).map(([rule, message]) => ({
    pointer,
    // The library's message for this rule quotes the name that was sent.
    detail: rule === 'whitelistValidation' ? UNKNOWN_FIELD : message,
  }));
  return [...own, ...(error.children ?? []).flatMap((child) => fieldErrors(child, pointer))];
}
