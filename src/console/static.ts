import { readFileSync } from 'node:fs';
import { Controller, Get, Param, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Response } from 'express';
import { Public } from '../access/require.js';
import { findPackageFile } from '../common/package-version.js';
import { ProblemException, problems } from '../problems/problems.js';

/** Gathered by the build (tools/build-docs.ts), and read at the first request. */
const TYPES: Readonly<Record<string, string>> = { 'pico.min.css': 'css', 'console.css': 'css', 'console.js': 'js' };

@ApiExcludeController()
@Controller('console/static')
export class ConsoleFiles {
  private readonly files = new Map<string, Buffer>();

  @Get(':name')
  @Public()
  showFile(@Param('name') name: string, @Res() response: Response): void {
    const type = Object.hasOwn(TYPES, name) ? TYPES[name] : undefined;
    if (type === undefined) throw new ProblemException(problems.notFound);
    let file = this.files.get(name);
    if (!file) this.files.set(name, (file = readFileSync(findPackageFile(`dist/console/${name}`))));
    response.type(type).send(file);
  }
}
