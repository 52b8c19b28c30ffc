package apiserver

import (
	"runtime"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// kubernetesVersion is the version of the module k8s.io/kubernetes in go.mod. A build outside the
// Kubernetes repository does not know its version, and reports one that kubectl cannot parse.
const kubernetesVersion = "v1.36.3"

// named is a version that returns its real number.
type named struct {
	compatibility.EffectiveVersion
}

func (v named) Info() *version.Info {
	return &version.Info{
		Major:      "1",
		Minor:      "36",
		GitVersion: kubernetesVersion,
		GoVersion:  runtime.Version(),
		Compiler:   runtime.Compiler,
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}

func nameVersion(config *app.Config) {
	for _, generic := range []*compatibility.EffectiveVersion{
		&config.KubeAPIs.ControlPlane.Generic.EffectiveVersion,
		&config.ApiExtensions.GenericConfig.EffectiveVersion,
		&config.Aggregator.GenericConfig.EffectiveVersion,
	} {
		*generic = named{*generic}
	}
}
