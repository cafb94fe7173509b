import { applyDecorators, HttpCode, type Type } from '@nestjs/common';
import { ApiResponse } from '@nestjs/swagger';

/** What a route answers when it succeeds: a body of this class, or no body, with a description for the OpenAPI document. */
export function Answers(status: 200 | 201 | 202 | 204, answer: Type | string): MethodDecorator {
  const described = typeof answer === 'string' ? { description: answer } : { type: answer };
  return applyDecorators(HttpCode(status), ApiResponse({ status, ...described }));
}
