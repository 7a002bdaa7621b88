# ottla in a container: docker build -t ottla . && docker run --rm -p 9092:9092 -v ottla:/var/lib/ottla ottla
# The first stage has a compiler and makes a wheel; the second has only Python, the wheel and what it needs.
FROM python:3.13-slim AS build
# The version that the base image's Debian has is the right one.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml setup.py README.md LICENSE ./
COPY src ./src
RUN python -m venv /ottla \
    && /ottla/bin/pip install --no-cache-dir --disable-pip-version-check . \
    && /ottla/bin/pip uninstall --yes --quiet pip \
    && find /ottla -name __pycache__ -type d -prune -exec rm -rf {} +

FROM python:3.13-slim
RUN useradd --system --uid 9092 --home-dir /var/lib/ottla --create-home --shell /usr/sbin/nologin ottla
COPY --from=build /ottla /ottla
ENV PATH=/ottla/bin:$PATH \
    PYTHONUNBUFFERED=1
USER 9092
WORKDIR /var/lib/ottla
VOLUME /var/lib/ottla
EXPOSE 9092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --start-interval=1s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:9404/readyz', timeout=2)"]
# What is given after the image's name is added; a later --set of the same setting wins.
ENTRYPOINT ["ottla", "serve", "--data", "/var/lib/ottla", "--metrics-port", "9404", \
    "--set", "listeners=PLAINTEXT://0.0.0.0:9092", "--set", "advertised.listeners=PLAINTEXT://localhost:9092"]
