# Two images: `docker build --target sandbox .` is where untrusted commands run, `docker build .` is the gate on top of it.
# The base is an argument so that a machine without a registry can bring its own Debian (.ci/image makes one); a release
# passes it by digest (.ci/base-image). Plain instructions only: GitHub's runner and older engines build this too.
ARG BASE=debian:bookworm-slim

# The sandbox: the tools that an agent's commands may expect, and nothing that belongs to the gate.
FROM ${BASE} AS sandbox

# What apt and dpkg leave behind is removed in the layer that made it; a later layer could only hide it.
# Setuid bits are dropped because nobody in a sandbox may become somebody else.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        bash coreutils file findutils gawk git grep jq procps python-is-python3 python3 sed tar \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/apt /var/log/*.log \
        /usr/share/doc/* /usr/share/man/* /usr/share/info/* /usr/share/locale/* \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

# Two users that must not touch each other: tools run as nobody (65534), the process that keeps the container alive as keeper.
# /work and /skills are mount points; /tmp is 1777 here because an engine gives a tmpfs the mode of the folder under it.
RUN echo 'keeper:x:64000:64000:keeps the sandbox alive:/nonexistent:/usr/sbin/nologin' >> /etc/passwd \
    && echo 'keeper:x:64000:' >> /etc/group \
    && mkdir -m 0755 /work /skills \
    && chmod 1777 /tmp

WORKDIR /work
CMD ["sleep", "infinity"]

# What the lock file names, in an environment of its own. pip stays behind in this stage.
FROM sandbox AS dependencies

RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-pip

# A machine whose connections are re-signed puts its authorities beside this file as machine-ca.crt (.ci/image does);
# elsewhere there is none, and the pattern then matches nothing. A mirror can be named with --build-arg PIP_INDEX_URL.
COPY requirements.txt machine-ca.crt* /tmp/build/
ARG PIP_INDEX_URL

# Nobody but root may read any of it. Test suites, headers and command-line programs of the libraries are left out.
RUN if [ -f /tmp/build/machine-ca.crt ]; then export PIP_CERT=/tmp/build/machine-ca.crt; fi \
    && python3 -m venv --without-pip /opt/skill-gate/venv \
    && python3 -m pip --python /opt/skill-gate/venv/bin/python --disable-pip-version-check --no-cache-dir \
        install --quiet --no-compile --only-binary :all: --require-hashes --requirement /tmp/build/requirements.txt \
    && find /opt/skill-gate/venv/bin -type f -delete \
    && cd /opt/skill-gate/venv/lib/python3*/site-packages \
    && find . -type d \( -name tests -o -path ./numpy/_core/include \) -prune -exec rm -rf {} + \
    && find . -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.a' \) -delete \
    && chmod -R go= /opt/skill-gate

# What every start of the interpreter does first, also in isolated mode (-I): the code is found, and what earlier steps of a
# job put into PATH and LD_* is dropped. That is meant for the runner's machine, and may lie in the checked-out pull request;
# the programs used here are the image's own. A certificate file that is not in here would end every connection.
# Then what a session imports is compiled, and nothing else: 34 MB that save each session 7 s.
RUN umask 077 && cd /opt/skill-gate/venv/lib/python3*/site-packages \
    && printf '%s\n' /opt/skill-gate/app 'import skill_gate_image' > skill-gate.pth \
    && printf '%s\n' 'import os' \
        'os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"' \
        'for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"):' \
        '    os.environ.pop(name, None)' \
        'for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):' \
        '    if not os.path.exists(os.environ.get(name, "/")):' \
        '        del os.environ[name]' > skill_gate_image.py \
    && printf '%s\n' 'import sys, py_compile' \
        'import anthropic, click, docker, github, jinja2, jsonschema, markdown_it, openai, pydantic, scipy.stats, yaml' \
        'for path in {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}:' \
        '    if path.startswith(sys.prefix) and path.endswith(".py"):' \
        '        py_compile.compile(path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)' \
        | /opt/skill-gate/venv/bin/python -I -B -

# The code, and the post step's program. The folder is copied as a whole, so that modes and owners are those of here.
FROM sandbox AS code

COPY LICENSE entrypoint.py /gate/app/
COPY gate /gate/app/gate
COPY reporters /gate/app/reporters
RUN printf '%s\n' '#!/opt/skill-gate/venv/bin/python -I' \
        '"""The post step: a status left pending is resolved, what is left on the engine is removed."""' \
        'import sys' 'from gate.wiring import main' 'sys.exit(main(["action", "post"]))' > /gate/post \
    && find /gate -name __pycache__ -prune -exec rm -rf {} + \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /gate/app \
    && chmod 0700 /gate/post \
    && chmod -R go= /gate

# The gate. The last stage, so that a build without --target makes it. It can serve as sandbox too: all of the gate lies below
# one folder that only root may enter, and no variable is set that a sandbox would inherit.
FROM sandbox AS gate

COPY --from=dependencies /opt/ /opt/
COPY --from=dependencies /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=code /gate/ /opt/skill-gate/

# The interpreter is process 1, so that a cancelled job's signals reach it. GitHub's runner gives no arguments.
ENTRYPOINT ["/opt/skill-gate/venv/bin/python", "-I", "/opt/skill-gate/app/entrypoint.py"]
CMD []
