// Package controllers runs controllers of kube-controller-manager in this process.
package controllers

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"

	"github.com/usher-dev/usher/sandbox/internal/pki"
)

// Core are the controllers that make an API server behave like a cluster.
func Core() []string {
	return []string{
		"serviceaccount-controller", "namespace-controller", "garbage-collector-controller",
		"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
		"job-controller", "cronjob-controller", "root-ca-certificate-publisher-controller",
		"clusterrole-aggregation-controller", "validatingadmissionpolicy-status-controller",
		"resourcequota-controller", "disruption-controller", "endpointslice-controller",
	}
}

// A Config configures which controllers to run, and against which API server.
type Config struct {
	Kubeconfig  string
	PKI         *pki.PKI
	Controllers []string
	// Dir is the folder for files of controllers.
	Dir string
	// Ready waits until the API server is ready. The controllers themselves give up after ten
	// seconds, which is too short on a loaded machine.
	Ready func(context.Context) error
}

// Start runs controllers from the time that the API server is ready until ctx is done. The returned
// channel receives the error if they stop earlier. Call it once per process.
func Start(ctx context.Context, config Config) (<-chan error, error) {
	opts, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("start controllers: %w", err)
	}
	flags := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	sets := opts.Flags(app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	opts.ParsedFlags = &sets
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	err = flags.Parse([]string{
		"--kubeconfig=" + config.Kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--controllers=" + strings.Join(config.Controllers, ","),
		// Each controller acts as its own service account, as in a cluster; the shared
		// identity has too few rights.
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + config.PKI.Path("sa.key"),
		"--root-ca-file=" + config.PKI.Path("ca.crt"),
		"--controller-start-interval=0s",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--flex-volume-plugin-dir=" + config.Dir,
	})
	if err != nil {
		return nil, fmt.Errorf("parse flags of kube-controller-manager: %w", err)
	}
	completed, err := opts.Config(ctx, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	if err != nil {
		return nil, fmt.Errorf("start controllers: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		err := config.Ready(ctx)
		if err == nil {
			err = app.Run(ctx, completed.Complete())
		}
		if ctx.Err() == nil {
			ended <- fmt.Errorf("controllers ended: %w", err)
		}
	}()
	return ended, nil
}
