"""Building with a container engine: a rendered Dockerfile, locked wheels, no network.

::

    dockerfile   recipe and lock -> Dockerfile and ignore file, as text
    context      the folder that the engine gets: wheels, assets, ignore file
    detect       which engine is there, what it can do
    tools        docker (buildx, BuildKit, classic) and podman: context -> image id
    readback     the engine's image -> OCI layout over the locked base
    secrets      what must not be found in it
"""
