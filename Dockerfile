# The job with its locked dependencies, Java and the JDBC drivers; runs as an unprivileged user.
#
# For SQL Server: docker build --build-arg MSSQL_EULA=Y, which installs Microsoft's ODBC driver and accepts
# its licence (https://aka.ms/odbc18eula).
FROM python:3.11-slim-bookworm
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
    && rm -rf /var/lib/apt/lists/*; fi

RUN useradd --create-home --uid 10001 tidemark \
    && install -d -o tidemark -g tidemark /var/lib/tidemark

WORKDIR /opt/tidemark
COPY pyproject.toml requirements.lock README.md LICENSE ./
# The lock has every extra's packages; as constraints it fixes versions and installs only what is asked for.
RUN sed -n 's/^\([^ ].*\) \\$/\1/p' requirements.lock > constraints.txt \
    && python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project'];\
 x = p['optional-dependencies']; print(*p['dependencies'], *x['mongodb'], *x['sqlserver'], sep='\n')" \
    > dependencies.txt \
    && pip install --no-cache-dir --disable-pip-version-check -r dependencies.txt -c constraints.txt

COPY engine ./engine
COPY signals ./signals
COPY adapters ./adapters
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps .

USER tidemark
# Spark fetches the JDBC drivers now, so that a container needs no repository when it starts.
RUN cd /tmp && python -c "from adapters.spark.session import POSTGRES_JDBC, SQLSERVER_JDBC, spark_session; \
spark_session('local[1]', {}, (POSTGRES_JDBC, SQLSERVER_JDBC)).stop()"

WORKDIR /var/lib/tidemark
VOLUME /var/lib/tidemark
ENTRYPOINT ["tidemark"]
CMD ["run", "/etc/tidemark/tidemark.properties"]
