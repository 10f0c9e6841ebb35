# The job with its locked dependencies, Java and the JDBC drivers; runs as an unprivileged user, and needs to
# write nowhere but in its volume and in /tmp: docker run --read-only --tmpfs /tmp:exec --cap-drop ALL …
#
# For SQL Server: docker build --build-arg MSSQL_EULA=Y, which installs Microsoft's ODBC driver and accepts
# its licence (https://aka.ms/odbc18eula).
#
# A tag may be moved, a digest can't: `make base-digest` asks the registry for the digest behind the tag below.
# Build by it, or write it here: --build-arg BASE=python:3.11.14-slim-bookworm@sha256:…
ARG BASE=python:3.11.14-slim-bookworm
FROM ${BASE}
ARG MSSQL_EULA=

RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

RUN if [ "$MSSQL_EULA" = Y ]; then \
    apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates curl \
    && curl --fail --silent --show-error --location --output /tmp/microsoft.deb \
        https://packages.microsoft.com/config/debian/12/packages-microsoft-prod.deb \
    && dpkg -i /tmp/microsoft.deb && rm /tmp/microsoft.deb && apt-get update -qq \
    && ACCEPT_EULA=Y apt-get install -y -qq --no-install-recommends msodbcsql18 libodbc2 \
    && apt-get purge -y -qq --auto-remove curl \
    && rm -rf /var/lib/apt/lists/*; fi

RUN useradd --create-home --uid 10001 tidemark \
    && install -d -o tidemark -g tidemark /var/lib/tidemark

WORKDIR /opt/tidemark
COPY .ci/build.lock .ci/image.lock ./
# By hashes alone, what builds packages too: pip would fetch that without looking at its hashes.
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r build.lock \
    && pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps --no-build-isolation \
        -r image.lock

COPY pyproject.toml README.md LICENSE ./
COPY engine ./engine
COPY signals ./signals
COPY adapters ./adapters
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . && pip check

# Spark fetches the JDBC drivers now and finds them among its own jars later, so that a container needs no
# repository, and no home to write to, when it starts. The same brings the maintained successor of Spark's
# lz4-java. Derby serves Hive's metastore, which no job starts. SECURITY.md has the reasons.
ARG LZ4=at.yawk.lz4:lz4-java:1.14.0
RUN cd /tmp && python -c "from adapters.spark.session import POSTGRES_JDBC, SQLSERVER_JDBC, spark_session; \
spark_session('local[1]', {'spark.jars.ivy': '/tmp/ivy'}, (POSTGRES_JDBC, SQLSERVER_JDBC, '$LZ4')).stop()" \
    && jars="$(python -c 'from adapters.spark.session import JARS; print(JARS)')" \
    && rm "$jars"/lz4-java-1.8.0.jar "$jars"/derby*-10.16.1.1.jar \
    && mv /tmp/ivy/jars/*.jar "$jars" \
    && rm -rf /tmp/*

USER 10001
# Not /tmp, which may be memory: blocks that Spark spills.
ENV SPARK_LOCAL_DIRS=/var/lib/tidemark/spark PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/tidemark
VOLUME /var/lib/tidemark
# The command tidemark, or an executor or a driver if Spark on Kubernetes starts the container.
ENTRYPOINT ["python", "-P", "-m", "adapters.spark.cluster.container"]
CMD ["run", "/etc/tidemark/tidemark.properties"]
