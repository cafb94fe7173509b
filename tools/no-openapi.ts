// Stands in for @nestjs/swagger in dist/service/: the OpenAPI document is made when the service is built, so that its
// decorators would only take time at each start. esbuild names a decorator that is missing here.
const decorate = () => (): void => undefined;

export const ApiBody = decorate;
export const ApiConsumes = decorate;
export const ApiExcludeController = decorate;
export const ApiExtension = decorate;
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
