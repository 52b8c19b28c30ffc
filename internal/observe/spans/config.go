package spans

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"sigs.k8s.io/yaml"
)

// A Config says where spans are sent, and how many requests get some. It is that of Kubernetes components.
type Config = tracingapi.TracingConfiguration

// maxConfig is the largest configuration, in bytes.
const maxConfig = 64 << 10

// versions are those in which API servers read a TracingConfiguration, and no version at all.
var versions = []string{"", "apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"}

// Load reads a TracingConfiguration, as kube-apiserver reads the file of its --tracing-config-file.
func Load(file string) (*Config, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read tracing configuration: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read tracing configuration: %w", err)
	}
	c, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("tracing configuration %s: %w", file, err)
	}
	return c, nil
}

func parse(text []byte) (*Config, error) {
	var file struct {
		metav1.TypeMeta `json:",inline"`
		Config          `json:",inline"`
	}
	if len(text) > maxConfig {
		return nil, fmt.Errorf("larger than %d bytes", maxConfig)
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return nil, err
	}
	if !slices.Contains(versions, file.APIVersion) || file.Kind != "TracingConfiguration" {
		return nil, fmt.Errorf("apiVersion %q, kind %q: expected a TracingConfiguration of %s", file.APIVersion, file.Kind, versions[1])
	}
	if err := tracingapi.ValidateTracingConfiguration(&file.Config, featuregate.NewFeatureGate(), nil).ToAggregate(); err != nil {
		return nil, err
	}
	if file.Endpoint != nil && *file.Endpoint == "" {
		return nil, errors.New("endpoint is empty: leave it out for localhost:4317")
	}
	return &file.Config, nil
}
