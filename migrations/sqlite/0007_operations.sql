-- What was given up is counted without reading what was not.
CREATE INDEX assessments_by_attempts ON assessments (attempts) WHERE attempts > 0;
