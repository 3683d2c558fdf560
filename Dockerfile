# The service, and the program of the private Redis server that it runs if STANDINGS_REDIS_URL is not set.
#
#   docker build -t standings .
#   docker run --rm -p 127.0.0.1:8080:8080 -v standings:/data -e STANDINGS_API_KEYS=admin:CHANGE-ME standings
#
# In a container the service listens on all addresses. So it does not start without API keys, unless
# STANDINGS_ALLOW_OPEN=true says that everybody may use it.

FROM rust:1.95-slim-bookworm AS build
# What the client of Kafka is built with.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libssl-dev make pkg-config zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
# The caches keep compiled dependencies from one build to the next; they are not part of the image.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --profile dist --locked --features kafka \
    && cp target/dist/standings /usr/local/bin/

FROM debian:bookworm-slim
# ca-certificates: for rediss:// and for Kafka by TLS; libssl3 and zlib1g: for Kafka.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libssl3 redis-server zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin standings \
    && install -d -o standings -g standings -m 700 /data
COPY --from=build /usr/local/bin/standings /usr/local/bin/
ENV STANDINGS_LISTEN=0.0.0.0:8080 \
    STANDINGS_DATA_DIR=/data
# By number, so that an orchestrator sees that it isn't root.
USER 10001:10001
WORKDIR /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["standings", "healthcheck"]
ENTRYPOINT ["standings"]
CMD ["serve"]
