# The image of Usher: one static binary and the certificates to trust, and nothing else.
# Its only download are the Go modules.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -pgo=cmd/usher/usher.pgo -ldflags='-s -w' -o /usher ./cmd/usher

FROM scratch
LABEL org.opencontainers.image.source=https://github.com/usher-dev/usher \
      org.opencontainers.image.licenses=Apache-2.0
# For policies that ask HTTP services.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /usher /usher
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["/usher"]
