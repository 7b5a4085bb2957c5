# The base is an argument so that a machine without a registry can bring its own Debian (.ci/image makes one).
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
