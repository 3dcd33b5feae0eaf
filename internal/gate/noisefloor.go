package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"felix/internal/verdict"
)

// NoiseFloorFile is what matrix aa writes into its session: the noise of each metric on this machine.
const NoiseFloorFile = "noise-floor.yml"

// LoadNoiseFloor reads what matrix aa wrote: the file, or the one in its session's directory. It has the key noise_floor
// and no other, which a gate's file may have too.
func LoadNoiseFloor(name string) (verdict.NoiseFloor, error) {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		name = filepath.Join(name, NoiseFloorFile)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var f struct {
		NoiseFloor map[string]float64 `yaml:"noise_floor"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(f.NoiseFloor) == 0 {
		return nil, fmt.Errorf("%s: no noise_floor in it", name)
	}
	floor := verdict.NoiseFloor(f.NoiseFloor)
	if _, err := (verdict.Spec{NoiseFloor: floor}).Resolve(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return floor, nil
}
