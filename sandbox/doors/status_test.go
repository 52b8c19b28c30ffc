package doors

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/streaming/pkg/httpstream"
)

// statusOf is the status in an error of a connection that did not come about.
func statusOf(err error) error {
	var upgrade *httpstream.UpgradeFailureError
	if errors.As(err, &upgrade) {
		err = upgrade.Cause
	}
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return status
	}
	return err
}
