export default function HomePage() {
  return <p>Order a verdict with POST /api/verdicts/ID, and show it at /results/ID.</p>;
}
