package chart_test

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix/analysis/internal/chart"
)

var (
	update = flag.Bool("update", false, "write the golden files anew; look at the pictures before you commit them")
	look   = flag.String("look", "", "directory to write every figure's PNG and SVG to, to be looked at")
)

func TestGolden(t *testing.T) {
	for name, f := range figures() {
		t.Run(name, func(t *testing.T) {
			formats := []chart.Format{chart.SVG, chart.SVG} // twice: the same bytes
			if *look != "" {
				formats = append(formats, chart.PNG)
			}
			out, err := chart.Render(f, formats...)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out[0], out[1]) {
				t.Error("drawn twice, two results")
			}
			if *look != "" {
				for _, format := range []int{0, 2} {
					if err := os.WriteFile(filepath.Join(*look, name+"."+string(formats[format])), out[format], 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, golden := normal(out[0]), filepath.Join("testdata", name+".svg")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got; if the picture is right, go test -update):\n%s", golden, diff)
			}
		})
	}
}

var decimals = regexp.MustCompile(`-?\d+\.\d+`)

// normal rounds coordinates to a tenth of a point: processors differ in the last digits.
func normal(svg []byte) []byte {
	return decimals.ReplaceAllFunc(svg, func(b []byte) []byte {
		v, err := strconv.ParseFloat(string(b), 64)
		if err != nil {
			return b
		}
		return strconv.AppendFloat(nil, math.Round(v*10)/10+0, 'f', -1, 64)
	})
}
