"""Everything the paper shows: data sets, optima, panels, runs, figures, reports."""
