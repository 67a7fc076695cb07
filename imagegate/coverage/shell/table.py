"""Programs that people call in Dockerfiles, as what they are to files of somebody else.

A program that is not listed here or in `programs` may change anything.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HARMLESS = _words(
    """
    : . true false echo printf test [ [[ set unset export declare local readonly typeset exit
    return break continue shift trap wait umask ulimit cd pushd popd read getopts hash type alias
    let shopt command which whereis pwd ls dir cat tac head tail less more grep egrep fgrep zgrep
    cut paste column tr uniq wc nl rev fold fmt comm join diff cmp od xxd hexdump base64 md5sum
    sha1sum sha224sum sha256sum sha384sum sha512sum cksum sum b2sum b3sum date sleep uname
    hostname id whoami groups logname users who env printenv nproc arch lscpu lsblk lspci free
    uptime ps kill pgrep top df du stat file realpath readlink dirname basename seq yes expr bc dc
    tty stty sync mountpoint findmnt getent locale getconf ldd nm objdump readelf strings size
    nvidia-smi rocm-smi rocminfo nvcc-version ldconfig rmdir chmod chown chgrp chattr setfacl
    getfacl setcap touch jq mktemp nohup time lsof ss netstat ip ifconfig ping nslookup dig host
    curl-config pkg-config pwck grpck printf logger script clear tput
    useradd adduser userdel usermod groupadd addgroup groupdel groupmod gpasswd passwd chpasswd
    newusers chage usermod chsh chfn visudo deluser delgroup
    update-ca-certificates update-alternatives alternatives update-locale locale-gen localedef
    dpkg-reconfigure dpkg-divert debconf-set-selections ucf update-rc.d invoke-rc.d deb-systemd-helper
    systemctl service rc-update rc-service initctl fc-cache mandb update-mime-database
    ssh-keygen ssh-keyscan openssl gpg gpg2 gpgconf dirmngr apt-key trust p11-kit keytool
    add-apt-repository apt-add-repository lsb_release sysctl modprobe depmod
    mount umount sum crontab setpci numactl taskset ibv_devinfo
    """
)
"""They read, say something, or change accounts, modes and the system's own databases."""

SYSTEM_PACKAGES = _words(
    """
    apt-get apt aptitude apt-mark apt-cache apt-config dpkg dpkg-query dpkg-deb apk dnf dnf5 yum
    microdnf tdnf rpm rpmkeys zypper pacman yay emerge xbps-install opkg brew snap flatpak nix-env
    nix nix-channel guix gem bundle bundler npm pnpm yarn corepack nvm n fnm volta bun conda mamba
    micromamba anaconda rustup rustup-init rustc pipx pyenv asdf mise rbenv sdk cpan cpanm luarocks
    opam cabal stack ghcup composer pecl pear docker-php-ext-install docker-php-ext-configure
    docker-php-ext-enable R Rscript install2.r conan vcpkg helm kubectl terraform
    yum-config-manager dnf-config-manager subscription-manager crb unminimize
    playwright spacy pre-commit
    huggingface-cli hf modelscope s5cmd nltk pulumi
    """
)
"""They bring packages or models from elsewhere to places of their own."""

BUILD_TOOLS = _words(
    """
    cmake cargo go gcc g++ cc c++ clang clang++ gfortran ld ar ranlib as nvcc hipcc rustc javac
    java mvn gradle gradlew sbt dotnet msbuild tsc esbuild vite webpack rollup swc protoc cython
    autoconf automake autoreconf libtoolize aclocal meson hugo mkdocs sphinx-build pyinstaller
    nuitka zig swift ghc npx bunx ccache sccache
    """
)
"""They read sources and write results: what they make may hold an asset, nothing is changed."""

PREFIXES: dict[str, frozenset[str]] = {
    # program: its options that take a value of their own
    "sudo": _words("-u -g -C -h -p -r -t -T -U --user --group"),
    "doas": _words("-u -C"),
    "env": _words("-u -C -S --unset --chdir --split-string"),
    "nice": _words("-n --adjustment"),
    "ionice": _words("-c -n -p --class --classdata"),
    "nohup": frozenset(),
    "time": _words("-f -o --format --output"),
    "timeout": _words("-k -s --kill-after --signal"),
    "stdbuf": _words("-i -o -e"),
    "unbuffer": frozenset(),
    "exec": _words("-a"),
    "command": frozenset(),
    "builtin": frozenset(),
    "then": frozenset(),
    "setpriv": _words("--reuid --regid --groups --inh-caps"),
    "flock": _words("-w -E"),
    "eatmydata": frozenset(),
    "retry": _words("-n -d"),
    "tini": frozenset(),
    "catchsegv": frozenset(),
    "xvfb-run": _words("-s -n -e -f -w"),
    "gosu": frozenset(),
    "su-exec": frozenset(),
}
"""They run the command that follows them."""

SHELLS = _words("sh bash dash ash zsh ksh mksh")

SYSTEM_FOLDERS = _words(
    "/ /usr /usr/local /usr/share /usr/local/share /usr/lib /usr/local/lib /usr/bin /usr/local/bin "
    "/bin /lib /etc /var /var/lib /home /root /opt /srv /tmp /mnt /data /run /app /workspace "
    "/workspaces /work /code /build /src"
)
"""Folders that many things share: a program that is given one of them is not about an asset."""
