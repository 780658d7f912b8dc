package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		v        float64
		from, to string
		want     string
	}{
		{1, "mi", "km", "1 mi = 1.609344 km"},
		{3, "斤", "kg", "3 斤 = 1.5 kg"},
		{15, "亩", "公顷", "15 亩 = 1 公顷"},
		{3, "尺", "米", "3 尺 = 1 米"},
		{100, "°C", "F", "100 °C = 212 F"},
		{-40, "F", "℃", "-40 F = -40 ℃"},
		{0, "k", "c", "0 k = -273.15 c"},
		{1, "GiB", "MB", "1 GiB = 1073.741824 MB"},
		{36, "km/h", "m/s", "36 km/h = 10 m/s"},
		{1, "m²", "cm2", "1 m² = 10000 cm2"},
		{180, "deg", "turn", "180 deg = 0.5 turn"},
		{1, "KM", "M", "1 KM = 1000 M"},
		{1, "eV", "J", "1 eV = 1.602176634e-19 J"},
		{0.1, "m", "cm", "0.1 m = 10 cm"},
	} {
		if got, err := Run(t.Context(), Args{Value: c.v, From: c.from, To: c.to}); err != nil || got != c.want {
			t.Errorf("%v %s: %q %v, want %q", c.v, c.from, got, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		v              float64
		from, to, want string
	}{
		{1, "kg", "m", "mass"}, {1, "furlongs", "m", "not known"}, {1, "m", "", "not known"}, {-300, "C", "K", "absolute zero"}, {1, "C", "m", "temperature"},
		{1, "mpa", "Pa", ""},
	} {
		got, err := Run(t.Context(), Args{Value: c.v, From: c.from, To: c.to})
		if c.want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %q %v", c, got, err)
		}
	}
}
