# The job with its locked dependencies, Java and the JDBC driver; runs as an unprivileged user.
FROM python:3.11-slim-bookworm

RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 10001 tidemark \
    && install -d -o tidemark -g tidemark /var/lib/tidemark

WORKDIR /opt/tidemark
COPY pyproject.toml requirements.lock README.md LICENSE ./
# The lock has every extra's packages; as constraints it fixes versions and installs only what is asked for.
RUN sed -n 's/^\([^ ].*\) \\$/\1/p' requirements.lock > constraints.txt \
    && python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project'];\
 print(*p['dependencies'], *p['optional-dependencies']['mongodb'], sep='\n')" \
    > dependencies.txt \
    && pip install --no-cache-dir --disable-pip-version-check -r dependencies.txt -c constraints.txt

COPY engine ./engine
COPY signals ./signals
COPY adapters ./adapters
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps .

USER tidemark
# Spark fetches the JDBC driver now, so that a container needs no repository when it starts.
RUN cd /tmp && python -c "from adapters.spark.session import POSTGRES_JDBC, spark_session; \
spark_session('local[1]', {}, (POSTGRES_JDBC,)).stop()"

WORKDIR /var/lib/tidemark
VOLUME /var/lib/tidemark
ENTRYPOINT ["tidemark"]
CMD ["run", "/etc/tidemark/tidemark.properties"]
