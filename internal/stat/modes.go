package stat

import "math"

// SlowFactor is how far below the 90th percentile a rate must lie to count as slow.
const SlowFactor = 1.5

// SlowModes returns how many of the rates lie below 1/1.5 of their 90th percentile, with the exact 95 % interval of
// that share: a system that sometimes falls into a slow mode shows it here, while its median need not. Rates are
// higher-is-better; for a latency pass 1/latency. Values that are NaN or infinite are left out.
func SlowModes(rates []float64) Share {
	finite := finite(rates)
	limit := SlowLimit(finite)
	k := 0
	for _, r := range finite {
		if r < limit {
			k++
		}
	}
	return ClopperPearson(k, len(finite), 0.95)
}

// SlowLimit returns the rate below which SlowModes calls a rate slow; NaN without rates.
func SlowLimit(rates []float64) float64 { return Quantile(finite(rates), 90) / SlowFactor }

func finite(xs []float64) []float64 {
	out := make([]float64, 0, len(xs))
	for _, x := range xs {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			out = append(out, x)
		}
	}
	return out
}
