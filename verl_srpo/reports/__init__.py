"""Reports: training runs as one HTML page and pictures, from the files that training writes."""
