#!/usr/bin/env bash
# Makes a container image of the static program, as an OCI image layout in a tar archive. Needs no daemon and no root.
#
#   packaging/oci.sh BINARY DIRECTORY       e.g. target/package/x86_64-unknown-linux-musl/release/frameward target/static
#
# One layer: the program, its licences, and the directories that are mounted (docs/releasing.md has the command).
# Format: OCI image specification 1.0, image-layout.md, manifest.md and config.md.
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# != 2)); then
    echo "usage: packaging/oci.sh BINARY DIRECTORY" >&2
    exit 2
fi
binary=$1 directory=$2
version=$(sed -nE '/^\[workspace.package\]/,/^\[/ s/^version *= *"(.*)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
created=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
umask 022
root=$scratch/root image=$scratch/image
doc=$root/usr/share/doc/frameward
install -d -m 755 "$root" "$image/blobs/sha256" "$root/etc/frameward" "$root/run/frameward" "$doc"
install -d -m 700 "$root/var/lib/frameward"
install -d -m 1777 "$root/tmp"
install -D -m 755 "$binary" "$root/usr/bin/frameward"
strip --strip-unneeded --remove-section=.comment "$root/usr/bin/frameward"
install -m 644 LICENSE-APACHE LICENSE-MIT SECURITY.md "$doc/"
scripts/licences.sh x86_64-unknown-linux-musl | gzip -9n >"$doc/third-party.txt.gz"

archive() {
    (cd "$1" && tar --create --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -- *)
}
# Puts standard input into the image as a blob, and prints its descriptor.
blob() {
    local type=$1 sum
    cat >"$scratch/blob"
    sum=$(sha256sum <"$scratch/blob" | cut -d' ' -f1)
    jq -cn --arg type "$type" --arg sum "sha256:$sum" --argjson size "$(stat -c %s "$scratch/blob")" \
        '{ mediaType: $type, digest: $sum, size: $size }'
    mv "$scratch/blob" "$image/blobs/sha256/$sum"
}
archive "$root" >"$scratch/layer.tar"
layer=$(gzip -9n <"$scratch/layer.tar" | blob application/vnd.oci.image.layer.v1.tar+gzip)
config=$(jq -cn --arg created "$created" --arg version "$version" --arg diff "sha256:$(sha256sum <"$scratch/layer.tar" | cut -d' ' -f1)" '
    { created: $created, architecture: "amd64", os: "linux",
      config: { Entrypoint: ["/usr/bin/frameward"], Cmd: ["--help"], Env: ["PATH=/usr/bin"], WorkingDir: "/etc/frameward",
        StopSignal: "SIGTERM", Volumes: { "/var/lib/frameward": {} },
        Labels: { "org.opencontainers.image.title": "frameward", "org.opencontainers.image.version": $version,
          "org.opencontainers.image.licenses": "MIT OR Apache-2.0" } },
      rootfs: { type: "layers", diff_ids: [$diff] },
      history: [{ created: $created, created_by: "packaging/oci.sh" }] }' | blob application/vnd.oci.image.config.v1+json)
manifest=$(jq -cn --argjson config "$config" --argjson layer "$layer" '
    { schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config, layers: [$layer] }' |
    blob application/vnd.oci.image.manifest.v1+json)
jq -cn --argjson manifest "$manifest" --arg version "$version" '
    { schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
      manifests: [$manifest + { annotations: { "org.opencontainers.image.ref.name": $version },
        platform: { architecture: "amd64", os: "linux" } }] }' >"$image/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$image/oci-layout"

mkdir -p "$directory"
archive "$image" >"$directory/frameward_${version}_oci-amd64.tar"
echo "$directory/frameward_${version}_oci-amd64.tar"
