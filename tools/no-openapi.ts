// Stands in for @nestjs/swagger in dist/service/, where its decorators would only slow each start: the build has made
// the OpenAPI document. esbuild reports a decorator that is missing here.
const decorate = () => (): void => undefined;

export const ApiBody = decorate;
export const ApiConsumes = decorate;
export const ApiExcludeController = decorate;
export const ApiExtension = decorate;
export const ApiExtraModels = decorate;
export const ApiHeader = decorate;
export const ApiOkResponse = decorate;
export const ApiOperation = decorate;
export const ApiProperty = decorate;
export const ApiPropertyOptional = decorate;
export const ApiResponse = decorate;
export const ApiSchema = decorate;
export const ApiSecurity = decorate;
export const ApiServiceUnavailableResponse = decorate;
export const ApiTags = decorate;
export const getSchemaPath = (): string => '';
