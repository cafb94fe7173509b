type Method = (...parameters: unknown[]) => Promise<unknown>;

/** Interleaves: runs an act after the next call of a method has its result, and before the caller gets it. */
export function afterNext<Service extends object>(
  service: Service,
  name: keyof Service & string,
  act: () => Promise<unknown>,
): void {
  const methods = service as Record<string, Method>;
  const method = methods[name]!.bind(service);
  jest.spyOn(methods, name).mockImplementationOnce(async (...parameters) => {
    const result = await method(...parameters);
    await act();
    return result;
  });
}
