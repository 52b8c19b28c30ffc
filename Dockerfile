# The image of Usher: one static binary, and nothing else. `make image` compiles the binary for
# each platform before, with the Go toolchain and the modules whose checksums are in go.mod and
# go.sum. No other image is part of it, so there is none whose content could change.
FROM scratch
ARG TARGETPLATFORM
LABEL org.opencontainers.image.source=https://github.com/usher-dev/usher \
      org.opencontainers.image.licenses=Apache-2.0
COPY ${TARGETPLATFORM}/usher /usher
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["/usher"]
